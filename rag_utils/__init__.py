"""The helper module of the book. Read it from the methods outwards: answers, one paper's method, lm, that paper's measure.

answers      is a reply right?                               SQuAD normalisation, exact match, F1, containing
seper        belief in the right answers, and its change     uncertainty  entropies of replies and graphs
erag         a document alone, a list by its labels          similarity   ROUGE-L, BLEU, BERTScore
dense        replies when one chunk is said otherwise        stats        intervals, pairs, correlations
ecorag       evidence, losses, adaptive compression          moi          what a passage is worth apart from its place

lm           the model: replies and log-likelihoods          judge        do two answers mean the same?
data         questions and passages                          retrieve     BM25, dense search, evaluation
prompts      text files with slots

measures/    the methods asked of a reader, one file per paper: what chapters and your own run call
engine/      how `lm` computes (tree, segments, decoding) and remembers (recordings, fingerprints, profiles)
corpora/     from files to checked rows                      page/        tables, verdicts, figures, chapters
base/        names, checks of input, cache, progress         score/       one's own retrieval run: measures, report, command

Imports run one way: base, {methods, corpora, engine}, doors, {measures, page}, score; experiments/ stands on all of it.
"""
