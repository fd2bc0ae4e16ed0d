"""tf-models-official's pretraining of BERT, on the records that the trainer reads."""

import os

import official_trainer


def is_pretraining(config):
    """Whether an experiment pretrains a BERT."""
    return config.task == "bert_pretraining"


def tf_models_official(config, data_dir, steps, windows):
    """Examples a second of each window of its masked-LM task, of the same encoder, by its pipeline and its LAMB.

    Raises:
      ValueError: the records have no masks, which it does not make.
    """
    from official.core import exp_factory
    from official.nlp.configs import encoders, pretraining_experiments  # noqa: F401, for the factory
    from official.nlp.tasks import masked_lm

    from tfbigbatch.data.bert import manifest as bert_manifest
    from tfbigbatch.errors import InputError

    manifest = bert_manifest.load(data_dir)
    if manifest.dynamic:
        raise InputError(f"--data_dir={data_dir} has no masks written. Prepare the text with --masking=static_token.")
    sizes = config.model
    theirs = exp_factory.get_exp_config("bert/pretraining")
    encoder = theirs.task.model.encoder.bert
    encoder.override(
        {
            "vocab_size": len(manifest.vocabulary),
            "hidden_size": sizes.hidden_units,
            "num_layers": sizes.layers,
            "num_attention_heads": sizes.heads,
            "intermediate_size": sizes.inner_units,
            "dropout_rate": sizes.dropout,
            "attention_dropout_rate": sizes.attention_dropout,
            "max_position_embeddings": sizes.max_positions,
            "type_vocab_size": sizes.token_types,
        }
    )
    [head] = theirs.task.model.cls_heads
    head.inner_dim = sizes.hidden_units
    theirs.task.train_data.override(
        {
            "input_path": os.path.join(data_dir, "train-*"),
            "global_batch_size": config.batch_size,
            "seq_length": manifest.max_seq_length,
            "max_predictions_per_seq": manifest.max_predictions_per_seq,
        }
    )
    settings = config.optimizer
    theirs.trainer.optimizer_config.override(
        {
            "optimizer": {
                "type": "lamb",
                "lamb": {
                    "weight_decay_rate": settings.weight_decay,
                    "epsilon": settings.epsilon,
                    "global_clipnorm": settings.global_clipnorm,
                    "exclude_from_weight_decay": ["LayerNorm", "layer_norm", "bias"],
                },
            },
            "learning_rate": {"type": "constant", "constant": {"learning_rate": 1e-4}},
            "warmup": {"type": None},
        }
    )
    return official_trainer.speeds(theirs, masked_lm.MaskedLMTask(theirs.task), config, steps, windows)
