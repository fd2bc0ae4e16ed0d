"""Beam search once more, and the search of everything, in plain Python; and a made-up model for both.

A model here is two functions: `first(sentence)` gives a state, `follow(sentence, state, token)` gives the
log-probabilities of the next token, attention's shares over the sentence's source tokens, and the next state.
"""

import itertools

import numpy as np


class MadeModel:
    """A random recurrent network in float64, with attention over sources of several lengths."""

    def __init__(self, *, sentences=3, vocabulary=5, units=4, source=3, seed=0, end_bias=0.0):
        random = np.random.RandomState(seed)
        self.sentences, self.vocabulary = sentences, vocabulary
        self.of_token, self.of_sentence = (
            random.normal(size=(vocabulary, units)),
            random.normal(size=(sentences, units)),
        )
        self.recurrent = random.normal(size=(units, units))
        self.to_tokens, self.to_source = (
            2 * random.normal(size=(units, vocabulary)),
            random.normal(size=(units, source)),
        )
        self.bias = np.zeros(vocabulary)
        self.bias[1] = end_bias
        self.mask = np.arange(source) < np.arange(sentences)[:, None] % source + 1

    def first(self, sentence):
        return self.of_sentence[sentence]

    def follow(self, sentence, state, token):
        state = np.tanh(self.of_token[token] + state @ self.recurrent)
        logits, scores = state @ self.to_tokens + self.bias, state @ self.to_source
        shares = np.exp(scores) * self.mask[sentence]
        return logits - np.logaddexp.reduce(logits), shares / shares.sum(), state


def score(log_probability, coverage, mask, length, length_penalty, coverage_penalty):
    penalty = sum(np.log(min(seen, 1.0)) for seen in coverage[mask])
    return log_probability / ((5 + length) / 6) ** length_penalty + coverage_penalty * penalty


def search(model, sentence, *, start, end, beam, longest, length_penalty, coverage_penalty, count):
    """[(score, tokens)] of the `count` best; it never stops early."""
    mask, width = model.mask[sentence], model.mask.shape[1]
    alive, finished = [(0.0, (), model.first(sentence), np.zeros(width))], []
    for length in range(1, longest + 1):
        continuations = []
        for likelihood, tokens, state, coverage in alive:
            log_shares, shares, after = model.follow(sentence, state, tokens[-1] if tokens else start)
            for token, more in enumerate(log_shares):
                continuations.append((likelihood + more, (*tokens, token), after, coverage + shares))
        continuations.sort(key=lambda each: -each[0])
        looked_at = continuations[: 2 * beam]
        for likelihood, tokens, _, coverage in looked_at:
            if tokens[-1] == end:
                worth = score(likelihood, coverage, mask, length, length_penalty, coverage_penalty)
                finished.append((worth, tokens))
        alive = [each for each in looked_at if each[1][-1] != end][:beam]
    finished.sort(key=lambda each: -each[0])
    unfinished = [
        (score(likelihood, coverage, mask, longest, length_penalty, coverage_penalty), tokens)
        for likelihood, tokens, _, coverage in alive
    ]
    return (finished[:count] + sorted(unfinished, key=lambda each: -each[0]))[:count]


def search_everything(model, sentence, *, start, end, longest, length_penalty, coverage_penalty):
    """[(score, tokens)] of all sequences that end within `longest` tokens, best first."""
    others = [token for token in range(model.vocabulary) if token != end]
    found = []
    for length in range(1, longest + 1):
        for middle in itertools.product(others, repeat=length - 1):
            state, likelihood, coverage, last = model.first(sentence), 0.0, np.zeros(model.mask.shape[1]), start
            for token in (*middle, end):
                log_shares, shares, state = model.follow(sentence, state, last)
                likelihood, coverage, last = likelihood + log_shares[token], coverage + shares, token
            worth = score(likelihood, coverage, model.mask[sentence], length, length_penalty, coverage_penalty)
            found.append((worth, (*middle, end)))
    return sorted(found, key=lambda each: -each[0])
