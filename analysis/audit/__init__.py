"""Looking at raw answers: which broke the instruction and how, pairs, disagreements, exports, people's verdicts.

Everything here reads a store through :class:`~hatevolution.analysis.audit.store_view.StoreView`; SQLite filters,
orders and pages, Polars reads the answers by parse policy and tells the kinds of broken ones.
"""
