"""KerasHub's BERT text classifier, trained on sentences by LAMB at a batch that LEGW scales to.

    KERAS_BACKEND=jax python examples/keras_hub_classifier.py

Runs on every backend of Keras 3, in about half a minute on one core. The network is small and begins at random, and the
sentences are made up, so that nothing is downloaded; the comments say what a fine-tuning has in their place.
"""

import keras
import keras_hub
import numpy as np

import tfbigbatch

BATCH, EPOCHS, LENGTH = 64, 12, 12
GOOD, BAD = ["wonderful", "charming", "moving", "brilliant"], ["dull", "tedious", "clumsy", "hollow"]
OTHER = ["the", "film", "cast", "plot", "was", "and", "music", "very", "with", "ending"]


def sentences(count, seed):
    """Made-up reviews, and whether each is good: `keras_hub` takes texts as they are."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 2, count)
    words = [[*random.choice(OTHER, 7), random.choice(GOOD if label else BAD)] for label in labels]
    return np.array([" ".join(random.permutation(each)) for each in words]), labels


def main():
    keras.utils.set_random_seed(0)
    # Pretrained: classifier = keras_hub.models.BertTextClassifier.from_preset("bert_base_en_uncased", num_classes=2)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *OTHER]
    tokenizer = keras_hub.tokenizers.BertTokenizer(vocabulary=vocabulary, lowercase=True)
    classifier = keras_hub.models.BertTextClassifier(
        backbone=keras_hub.models.BertBackbone(len(vocabulary), 2, 2, 32, 64, max_sequence_length=LENGTH),
        preprocessor=keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=LENGTH),
        num_classes=2,
    )
    texts, labels = sentences(1024, seed=0)
    recipe = tfbigbatch.Recipe(batch_size=16, learning_rate=0.01, warmup_epochs=0.5, epochs=EPOCHS, decay="linear")
    schedule = recipe.at(BATCH, "legw").schedule(len(texts))
    classifier.compile(
        optimizer=tfbigbatch.LAMB(schedule, weight_decay=0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = classifier.fit(texts, labels, batch_size=BATCH, epochs=EPOCHS, verbose=0).history
    _, accuracy = classifier.evaluate(*sentences(256, seed=1), batch_size=BATCH, verbose=0)
    print(f"loss {history['loss'][0]:.3f} to {history['loss'][-1]:.3f}, {accuracy:.1%} of the held-out sentences")


if __name__ == "__main__":
    main()
