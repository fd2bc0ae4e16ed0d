"""BERT (Devlin et al. 2018, arXiv:1810.04805): tf-models-official's encoder, with the heads of pretraining."""

import tensorflow as tf
import tf_keras

from tfbigbatch.errors import InputError, nearest

# Layers and hidden units; a head for each 64 units, and four times the units inside.
SIZES = {
    "bert_tiny": (2, 128),
    "bert_mini": (4, 256),
    "bert_small": (4, 512),
    "bert_medium": (8, 512),
    "bert_base": (12, 768),
    "bert_large": (24, 1024),
}
_UNITS_OF_A_HEAD = 64
# How a text becomes a vector: BERT's pooler of the first token, or the mean of all tokens.
POOLINGS = ("first", "mean")
_INITIAL_DEVIATION = 0.02


def defaults(name):
    """The fields of a size that an experiment may set, with their defaults.

    Raises:
      ValueError: the name is unknown.
    """
    if name not in SIZES:
        raise InputError(f"BERT {name!r} is unknown. {nearest(name, SIZES)}")
    layers, hidden_units = SIZES[name]
    return {
        "layers": layers,
        "hidden_units": hidden_units,
        "heads": hidden_units // _UNITS_OF_A_HEAD,
        "inner_units": 4 * hidden_units,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "max_positions": 512,
        "token_types": 2,
    }


def encoder(
    *,
    vocabulary_size,
    layers,
    hidden_units,
    heads,
    inner_units,
    dropout=0.1,
    attention_dropout=0.1,
    max_positions=512,
    token_types=2,
    packed=False,
):
    """tf-models-official's BertEncoderV2.

    Args:
      vocabulary_size: word pieces.
      layers, hidden_units, heads, inner_units: the transformer's sizes; heads divides hidden_units.
      dropout: of embeddings and of each layer's outputs.
      attention_dropout: of attention's shares.
      max_positions: the longest sequence.
      token_types: segments that a sequence may have.
      packed: whether a sequence holds several texts, which do not see each other.

    Returns:
      A layer from a dictionary of input_word_ids, input_mask and input_type_ids, int32 [n, T], and where texts are
      packed also position_ids and document_ids (1 and up, 0 for padding), to a dictionary of sequence_output
      [n, T, hidden_units] and pooled_output [n, hidden_units], which is of the first text.

    Raises:
      ValueError: a size is out of its range.
    """
    from official.nlp.modeling.networks import BertEncoderV2

    if packed:
        from tfbigbatch.models.packed_bert import PackedBertEncoder
    sizes = {
        "layers": layers,
        "hidden_units": hidden_units,
        "heads": heads,
        "inner_units": inner_units,
        "max_positions": max_positions,
        "token_types": token_types,
        "vocabulary_size": vocabulary_size,
    }
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"model.{name}={size}: expected 1 or more.")
    if hidden_units % heads:
        raise InputError(f"model.heads={heads} does not divide model.hidden_units={hidden_units}.")
    for name, rate in (("dropout", dropout), ("attention_dropout", attention_dropout)):
        if not 0.0 <= rate < 1.0:
            raise InputError(f"model.{name}={rate}: expected 0 <= {name} < 1.")
    return (PackedBertEncoder if packed else BertEncoderV2)(
        vocab_size=vocabulary_size,
        hidden_size=hidden_units,
        num_layers=layers,
        num_attention_heads=heads,
        inner_dim=inner_units,
        inner_activation=_gelu,
        output_dropout=dropout,
        attention_dropout=attention_dropout,
        max_sequence_length=max_positions,
        type_vocab_size=token_types,
        initializer=_initializer(),
        name="encoder",
    )


def inputs(packed=False):
    """The encoder's inputs: a dictionary of int32 [n, T]."""
    names = ("input_word_ids", "input_mask", "input_type_ids", *(("position_ids", "document_ids") if packed else ()))
    return {name: tf_keras.Input((None,), dtype=tf.int32, name=name) for name in names}


def pretrainer(*, next_sentence=True, **sizes):
    """The model that is pretrained: which words the masked ones are, and whether the second segment follows the first.

    The first head is gathered at the masked positions only, and its last matrix is that of the word embeddings.

    Args:
      next_sentence: whether there is the second head, on the pooled output.
      **sizes: see `encoder`.

    Returns:
      tf_keras.Model from the encoder's inputs and masked_lm_positions, int32 [n, P], to a dictionary of float32
      logits: masked_lm [n, P, vocabulary_size], and next_sentence [n, 2].

    Raises:
      ValueError: a size is out of its range.
    """
    from official.nlp.modeling.layers import MaskedLM

    network = encoder(**sizes)
    features = inputs(sizes.get("packed", False))
    positions = tf_keras.Input((None,), dtype=tf.int32, name="masked_lm_positions")
    encoded = network(features)
    words = MaskedLM(
        network.get_embedding_table(), activation=_gelu, initializer=_initializer(), name="masked_lm_head"
    )(encoded["sequence_output"], positions)
    outputs = {"masked_lm": _float32("masked_lm")(words)}
    if next_sentence:
        follows = tf_keras.layers.Dense(2, kernel_initializer=_initializer(), name="next_sentence_head")
        outputs["next_sentence"] = _float32("next_sentence")(follows(encoded["pooled_output"]))
    else:
        # Nothing is learned through it.
        network.pooler_layer.trainable = False
    return tf_keras.Model({**features, "masked_lm_positions": positions}, outputs, name="bert_pretrainer")


def classifier(*, classes, pooling="first", **sizes):
    """The model of texts and pairs of texts: the pooled output, dropout, and a dense layer.

    Args:
      classes: how many; 1 for a number.
      pooling: one of POOLINGS.
      **sizes: see `encoder`.

    Returns:
      tf_keras.Model from the encoder's inputs to float32 logits [n, classes].

    Raises:
      ValueError: the pooling is unknown, or a size is out of its range.
    """
    features = inputs()
    return tf_keras.Model(features, _pooled_head(features, classes, pooling, sizes), name="bert_classifier")


def chooser(*, choices, pooling="first", **sizes):
    """The model of questions with several answers: each is scored by its own, as a pair of texts.

    Args:
      choices: how many answers each has.
      pooling: one of POOLINGS.
      **sizes: see `encoder`.

    Returns:
      tf_keras.Model from the encoder's inputs with an axis for the choices, int32 [n, choices, T], to float32
      logits [n, choices].

    Raises:
      ValueError: the pooling is unknown, or a size is out of its range.
    """
    features = {name: tf_keras.Input((choices, None), dtype=tf.int32, name=name) for name in inputs()}
    side_by_side = {name: tf.reshape(value, [-1, tf.shape(value)[-1]]) for name, value in features.items()}
    scores = _pooled_head(side_by_side, 1, pooling, sizes)
    return tf_keras.Model(features, tf.reshape(scores, [-1, choices]), name="bert_chooser")


def span_finder(**sizes):
    """The model of answers that are a part of the text: where they start, and where they end.

    Args:
      **sizes: see `encoder`.

    Returns:
      tf_keras.Model from the encoder's inputs to a dictionary of float32 logits [n, T]: 'start_positions' and
      'end_positions'.
    """
    features = inputs()
    dense = tf_keras.layers.Dense(2, kernel_initializer=_initializer(), name="span_head")
    start, end = tf.unstack(dense(encoder(**sizes)(features)["sequence_output"]), axis=-1)
    outputs = {"start_positions": start, "end_positions": end}
    return tf_keras.Model(features, {name: _float32(name)(value) for name, value in outputs.items()}, name="bert_spans")


def _pooled_head(features, units, pooling, sizes):
    if pooling not in POOLINGS:
        raise InputError(f"model.pooling={pooling!r} is unknown. {nearest(pooling, POOLINGS)}")
    network = encoder(**sizes)
    encoded = network(features)
    pooled = encoded["pooled_output"]
    if pooling == "mean":
        # Nothing is learned through it.
        network.pooler_layer.trainable = False
        pooled = tf_keras.layers.GlobalAveragePooling1D(dtype=tf.float32)(
            encoded["sequence_output"], mask=tf.cast(features["input_mask"], tf.bool)
        )
    dropped = tf_keras.layers.Dropout(sizes.get("dropout", 0.1))(pooled)
    return _float32("logits")(tf_keras.layers.Dense(units, kernel_initializer=_initializer(), name="head")(dropped))


def _float32(name):
    """Logits are float32 whatever the precision."""
    return tf_keras.layers.Activation("linear", dtype=tf.float32, name=name)


def _gelu(values):
    # As Google's BERT: its approximation by tanh.
    return tf_keras.activations.gelu(values, approximate=True)


def _initializer():
    return tf_keras.initializers.TruncatedNormal(stddev=_INITIAL_DEVIATION)
