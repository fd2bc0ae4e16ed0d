"""Sequences for pretraining from tokenised documents: BERT's pairs of segments, or runs of one document's text.

Devlin et al. 2018 (arXiv:1810.04805), appendix A.2, in the form of google-research/bert's
create_pretraining_data.py: sentences are gathered up to a length; a random part of them is segment A; segment B
is the rest, or in half of the cases text from another document. Liu et al. 2019 (arXiv:1907.11692), section
4.2: without next-sentence prediction, runs of text that do not cross a document (DOC-SENTENCES).
"""


def pairs(document, another, *, length, short_share, random):
    """The pairs of a document.

    Args:
      document: list of sentences, a list of ids each; none is empty.
      another: function of `random` that gives another document, for a random segment; None where there is no other:
        then all segments B are the next ones, and a sentence that has no next one is left out.
      length: tokens of A and B together, at most.
      short_share: the probability that this document's pairs aim at a random shorter length.
      random: random.Random.

    Yields:
      (a, b, 1 where B is of another document, else 0): lists of ids, neither empty.
    """
    aim = random.randint(2, length) if random.random() < short_share else length
    begin, count = 0, len(document)
    while begin < count:
        end, size = begin, 0
        while end < count and size < aim:
            size += len(document[end])
            end += 1
        gathered = end - begin
        middle = begin + (random.randint(1, gathered - 1) if gathered > 1 else 1)
        a = _joined(document[begin:middle])
        if another and (gathered == 1 or random.random() < 0.5):
            b = _from(another(random), aim - len(a), random)
            yield *_cut(a, b, length, random), 1
            # The sentences that B would have been are not lost: they are gathered next.
            begin = middle
        elif gathered > 1:
            yield *_cut(a, _joined(document[middle:end]), length, random), 0
            begin = end
        else:
            # A single sentence has no next one, and there is no other document.
            begin = end


def runs(document, *, length, short_share, random):
    """The runs of a document's text, one after the other, each but the last of full length.

    Args:
      document, random: see `pairs`.
      length: tokens of a run.
      short_share: the probability that a run is of a random shorter length.

    Yields:
      lists of ids, none empty.
    """
    text, begin = _joined(document), 0
    while begin < len(text):
        size = random.randint(2, length) if random.random() < short_share else length
        yield text[begin : begin + size]
        begin += size


def _joined(sentences):
    if len(sentences) == 1:
        return sentences[0]
    return [token for sentence in sentences for token in sentence]


def _from(document, size, random):
    """Text from a random sentence of a document on, of `size` tokens or more where there are as many."""
    found = []
    for sentence in document[random.randrange(len(document)) :]:
        found += sentence
        if len(found) >= size:
            break
    return found


def _cut(a, b, length, random):
    """Both cut to `length` tokens together: the longer one loses tokens first, at either end at random."""
    excess = len(a) + len(b) - length
    if excess <= 0:
        return a, b
    # One by one the longer loses a token, B where they are equal.
    from_longer = min(excess, abs(len(a) - len(b)))
    from_a = from_longer if len(a) > len(b) else 0
    from_a, from_b = from_a + (excess - from_longer) // 2, excess - from_a - (excess - from_longer) // 2
    return _shorter(a, from_a, random), _shorter(b, from_b, random)


def _shorter(tokens, by, random):
    if not by:
        return tokens
    # Each token is lost at the front with probability 1/2: a binomial number of them.
    front = random.getrandbits(by).bit_count()
    return tokens[front : len(tokens) - by + front]
