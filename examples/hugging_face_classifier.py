"""A BERT of Hugging Face's transformers, trained on sentences by LAMB in Keras' fit.

    KERAS_BACKEND=torch python examples/hugging_face_classifier.py

Its models are PyTorch's: Keras' TorchModuleWrapper makes a layer of one. About half a minute on one core. The network
is small and begins at random, and the sentences are made up, so that nothing is downloaded.
"""

import datasets
import keras
import numpy as np
import transformers

import tfbigbatch

BATCH, EPOCHS, LENGTH = 64, 12, 12
GOOD, BAD = ["wonderful", "charming", "moving", "brilliant"], ["dull", "tedious", "clumsy", "hollow"]
OTHER = ["the", "film", "cast", "plot", "was", "and", "music", "very", "with", "ending"]


def sentences(count, seed):
    """Made-up reviews, and whether each is good."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 2, count)
    words = [[*random.choice(OTHER, 7), random.choice(GOOD if label else BAD)] for label in labels]
    return datasets.Dataset.from_dict({"text": [" ".join(random.permutation(each)) for each in words], "label": labels})


class Classifier(keras.Model):
    """The logits of a model of transformers, from its tokenizer's arrays."""

    def __init__(self, module):
        super().__init__()
        self.wrapped = keras.layers.TorchModuleWrapper(module)

    def call(self, inputs, training=None):
        return self.wrapped(**inputs, training=training).logits


def main():
    keras.utils.set_random_seed(0)
    # Pretrained: AutoTokenizer.from_pretrained(NAME), and AutoModelForSequenceClassification.from_pretrained(NAME).
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *OTHER]
    tokenizer = transformers.BertTokenizer(vocab={word: index for index, word in enumerate(words)})
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    module = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=len(words), **sizes))

    def arrays(data):
        tokens = tokenizer(data["text"][:], padding="max_length", max_length=LENGTH, return_tensors="np")
        return dict(tokens), np.array(data["label"])

    classifier = Classifier(module)
    recipe = tfbigbatch.Recipe(batch_size=16, learning_rate=0.01, warmup_epochs=0.5, epochs=EPOCHS, decay="linear")
    optimizer = tfbigbatch.LAMB(recipe.at(BATCH, "legw").schedule(1024), weight_decay=0.01)
    # Biases and normalisations, by their shape: Keras knows no names of PyTorch's parameters.
    optimizer.exclude_from_weight_decay([each for each in classifier.trainable_variables if len(each.shape) == 1])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    history = classifier.fit(*arrays(sentences(1024, seed=0)), batch_size=BATCH, epochs=EPOCHS, verbose=0).history
    _, accuracy = classifier.evaluate(*arrays(sentences(256, seed=1)), batch_size=BATCH, verbose=0)
    print(f"loss {history['loss'][0]:.3f} to {history['loss'][-1]:.3f}, {accuracy:.1%} of the held-out sentences")


if __name__ == "__main__":
    main()
