"""Small models that are trained while a reader waits, to see what heads learn.

`grammar.py` holds a made-up language with three relations and a model of one attention;
`induction.py` sequences that repeat and a model of two; `training.py` what trains both.
"""
