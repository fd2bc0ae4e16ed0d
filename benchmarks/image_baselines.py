"""What people train ResNet-50 with today: plain Keras' batches, and tf-models-official's trainer."""

import os

import official_trainer

# tf-models-official draws from a window of this many pictures; here there may be fewer.
_SHUFFLED = 256


def is_resnet50(config):
    """Whether tf-models-official's trainer has the model of an experiment."""
    return config.task == "image_classification" and config.model.name == "resnet50"


def plain_batches(split, manifest, image_size, batch_size):
    """(uint8 images, labels) as a Keras user reads them: whole pictures decoded, flipped at random and resized."""
    import tensorflow as tf

    features = {
        manifest.image_key: tf.io.FixedLenFeature([], tf.string),
        manifest.label_key: tf.io.FixedLenFeature([], tf.int64),
    }

    def example(record):
        fields = tf.io.parse_single_example(record, features)
        image = tf.image.random_flip_left_right(tf.io.decode_jpeg(fields[manifest.image_key], channels=3))
        image = tf.image.resize(image, [image_size, image_size])
        return tf.cast(image, tf.uint8), fields[manifest.label_key] - manifest.label_offset

    records = tf.data.TFRecordDataset(list(split.files)).repeat().shuffle(_SHUFFLED)
    examples = records.map(example, num_parallel_calls=tf.data.AUTOTUNE)
    return examples.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def tf_models_official(config, data_dir, steps, windows):
    """Examples a second of each window of its ImageNet trainer on ResNet-50, by its own configuration and pipeline."""
    from official.vision.configs import image_classification as configs
    from official.vision.tasks import image_classification

    from tfbigbatch.data.images import manifest as image_manifest

    manifest = image_manifest.load(data_dir)
    theirs = configs.image_classification_imagenet()
    theirs.task.model.input_size = [config.model.image_size, config.model.image_size, 3]
    # Labels of the standard records begin at 1.
    theirs.task.model.num_classes = len(manifest.classes) + manifest.label_offset
    data = theirs.task.train_data
    data.input_path = os.path.join(data_dir, "train-*")
    data.global_batch_size = config.batch_size
    data.shuffle_buffer_size = _SHUFFLED
    data.dtype = "float32"
    return official_trainer.speeds(
        theirs, image_classification.ImageClassificationTask(theirs.task), config, steps, windows
    )
