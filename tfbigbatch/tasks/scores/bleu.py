"""BLEU of translations, by sacrebleu (Post 2018, arXiv:1804.08771)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfbigbatch.errors import InputError, missing_extra


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, tokenize: str = "13a"
) -> dict[str, Any]:
    """Corpus BLEU of detokenised text, with sacrebleu's signature, which a comparison needs.

    MLPerf's GNMT is scored with lowercase=True and tokenize='intl'.

    Args:
      hypotheses, references: n texts each.
      lowercase: ignore case.
      tokenize: sacrebleu's tokeniser; '13a' is WMT's.

    Returns:
      'score' in [0, 100], and 'signature', sacrebleu's.

    Raises:
      ValueError: there are no texts, their numbers differ, the tokeniser is unknown, or sacrebleu is not installed.
    """
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise missing_extra("sacrebleu", "text") from None
    if len(hypotheses) != len(references) or not len(hypotheses):
        raise InputError(
            f"{len(hypotheses):,} hypotheses and {len(references):,} references; expected one reference for each "
            "hypothesis, and at least one."
        )
    if tokenize not in BLEU.TOKENIZERS:
        raise InputError(f"tokenize={tokenize!r}: expected one of sacrebleu's, {', '.join(sorted(BLEU.TOKENIZERS))}.")
    # force: no warning about texts that look tokenised.
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    found = metric.corpus_score(list(hypotheses), [list(references)])
    return {"score": found.score, "signature": str(metric.get_signature())}


def signature(*, lowercase: bool = False, tokenize: str = "13a") -> str:
    """sacrebleu's signature of scores with these options.

    Raises:
      ValueError: as `bleu`.
    """
    found: str = bleu(["a"], ["a"], lowercase=lowercase, tokenize=tokenize)["signature"]
    return found
