"""BLEU of translations, by sacrebleu (Post 2018, arXiv:1804.08771)."""

from tfbigbatch.errors import InputError, missing_extra


def bleu(hypotheses, references, *, lowercase=False, tokenize="13a"):
    """Corpus BLEU of detokenised text, and the signature without which the number cannot be compared.

    MLPerf's GNMT is scored with lowercase=True and tokenize='intl'.

    Args:
      hypotheses: list of n texts.
      references: list of n texts, one for each.
      lowercase: whether capitals do not count.
      tokenize: sacrebleu's tokeniser; '13a' is that of WMT.

    Returns:
      Dictionary: 'score' in [0, 100]; 'signature', sacrebleu's; 'precisions', a list of four in percent, of n-grams
      of 1 to 4 words; 'brevity_penalty'; 'words', those of the hypotheses, and 'reference_words'.

    Raises:
      ValueError: there are no texts or not as many of both, one is no text, the tokeniser is unknown, or sacrebleu
        is not installed.
    """
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise missing_extra("sacrebleu", "text") from None
    _check(hypotheses, references)
    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(f"tokenize={tokenize!r}: expected one of sacrebleu's, {', '.join(sorted(BLEU.TOKENIZERS))}.")
    # force: it would warn of texts that look tokenised, which some are.
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    found = metric.corpus_score(list(hypotheses), [list(references)])
    return {
        "score": found.score,
        "signature": str(metric.get_signature()),
        "precisions": list(found.precisions),
        "brevity_penalty": found.bp,
        "words": found.sys_len,
        "reference_words": found.ref_len,
    }


def signature(*, lowercase=False, tokenize="13a"):
    """sacrebleu's signature of a score with these options, before there is one.

    Raises:
      ValueError: as `bleu`.
    """
    return bleu(["a"], ["a"], lowercase=lowercase, tokenize=tokenize)["signature"]


def _check(hypotheses, references):
    if len(hypotheses) != len(references) or not len(hypotheses):
        raise InputError(
            f"{len(hypotheses):,} hypotheses and {len(references):,} references; expected one reference for each "
            "hypothesis, and at least one. Are both of the same test set, with empty translations kept as empty lines?"
        )
    for name, texts in (("hypothesis", hypotheses), ("reference", references)):
        for number, text in enumerate(texts, 1):
            if not isinstance(text, str):
                raise InputError(f"{name} {number} is {text!r}; expected a detokenised text, not tokens.")
