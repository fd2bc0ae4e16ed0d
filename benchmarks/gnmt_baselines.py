"""GNMT as it is written with the layers of Keras alone."""


def plain_keras(
    *,
    vocabulary_size,
    hidden_units,
    encoder_layers,
    decoder_layers,
    dropout,
    source_length,
    target_length,
):
    """GNMT of tf_keras' LSTM, Bidirectional and AdditiveAttention, masked by its embedding.

    AdditiveAttention's score vector is not normalised and has no bias; the matrices of query and key stand before it.
    All else is the same network, with Keras' own initial weights.
    """
    import tf_keras
    from tf_keras import layers

    def lstm(values, **options):
        return layers.LSTM(hidden_units, return_sequences=True)(layers.Dropout(dropout)(values), **options)

    source = tf_keras.Input((source_length,), dtype="int32", name="source_ids")
    lengths = tf_keras.Input((), dtype="int32", name="source_lengths")
    target = tf_keras.Input((target_length,), dtype="int32", name="target_ids")
    embedding = layers.Embedding(vocabulary_size, hidden_units, mask_zero=True)
    mask = embedding.compute_mask(source)
    values = layers.Dropout(dropout)(embedding(source))
    values = layers.Bidirectional(layers.LSTM(hidden_units, return_sequences=True))(values, mask=mask)
    for layer in range(1, encoder_layers):
        outputs = lstm(values, mask=mask)
        values = layers.Add()([outputs, values]) if layer >= 2 else outputs
    memory, values = values, lstm(embedding(target))
    context = layers.AdditiveAttention()(
        [
            layers.Dense(hidden_units, use_bias=False)(values),
            memory,
            layers.Dense(hidden_units, use_bias=False)(memory),
        ],
        mask=[None, mask],
    )
    for layer in range(1, decoder_layers):
        outputs = lstm(layers.Concatenate()([values, context]))
        values = layers.Add()([outputs, values]) if layer >= 2 else outputs
    logits = layers.Activation("linear", dtype="float32")(layers.Dense(vocabulary_size)(values))
    inputs = {"source_ids": source, "source_lengths": lengths, "target_ids": target}
    return tf_keras.Model(inputs, logits, name="plain_keras")


def tfbigbatch(**sizes):
    """Ours."""
    from tfbigbatch.models.gnmt.network import gnmt

    return gnmt(**sizes)


BASELINES = {"tfbigbatch": tfbigbatch, "plain_keras": plain_keras}
