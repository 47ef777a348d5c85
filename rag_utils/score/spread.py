"""Texts that are computed by workers: what `engine.texts` does in this process, dealt to a pool shard by shard."""

import weakref
from collections.abc import Iterator, Sequence

from rag_utils.base.progress import track
from rag_utils.engine.texts import Texts
from rag_utils.score.pool import Pool
from rag_utils.score.shards import deal


class Spread(Texts):
    """`Texts` whose replies come from a pool. One pool at a time has its workers: those of another reader end when this one computes."""

    _computes = None  # a weak reference to the pool that has them

    def __init__(self, own: Texts, pool: Pool):
        super().__init__(own.loaded, batch_tokens=own._batch_tokens)
        self.count, self.pool = own.count, pool

    def generate(self, calls: Sequence[tuple[str, int | None]], settings: dict) -> Iterator[list[tuple]]:
        """As `Texts.generate`, shard by shard."""
        samples: dict[str, list[int | None]] = {}
        for prompt, sample in calls:
            samples.setdefault(prompt, []).append(sample)
        prompts, steps = list(samples), settings["max_new_tokens"]
        encoded = [self.encode(prompt) for prompt in prompts]
        self._check_window(encoded, steps)
        shards = deal(encoded, [len(samples[prompt]) * steps for prompt in prompts], self.pool.workers)
        most = max((sample for _, sample in calls if sample is not None), default=0)
        how = settings | {"n": most + 1, "greedy": any(sample is None for _, sample in calls), "seed": settings["seed"] or 0}
        work = [[prompts[i] for i in shard] for shard in shards]
        for answered in track(self._answered("generate", work, how), what=f"{self.name}, replies", total=len(prompts)):
            every = [(prompt, sample, replies) for prompt, replies in answered for sample in samples[prompt]]
            yield [((prompt, sample), replies[-1 if sample is None else sample]) for prompt, sample, replies in every]

    def score(self, calls: Sequence[tuple[str, str]]) -> Iterator[list[tuple]]:
        """As `Texts.score`, shard by shard."""
        texts = [[*self.context(context), *self.encode(after, context=False)] for context, after in calls]
        self._check_window(texts, 0)
        work = [[calls[i] for i in shard] for shard in deal(texts, [0] * len(texts), self.pool.workers)]
        yield from track(self._answered("score", work, {}), what=f"{self.name}, log-likelihoods", total=len(calls))

    def _answered(self, operation: str, work: list[list], how: dict) -> Iterator[list[tuple]]:
        holder = Spread._computes and Spread._computes()
        if holder is not None and holder is not self.pool:
            holder.stop()
        Spread._computes = weakref.ref(self.pool)
        for answered, (computed, distinct) in self.pool.answers(operation, work, how):
            self.count.computed += computed
            self.count.distinct += distinct
            yield answered
