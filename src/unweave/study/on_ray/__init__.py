"""A study on Ray: a worker for every GPU of a cluster, and what to do when some of them die.

Workers train, score and write into the study's folder, just as one process does on its own; the
process that runs the study starts them, answers for the ledger (`far_ledger.py`) and watches.
A worker that dies leaves its claims, which are released, and its last checkpoint, from which
whoever claims the runs goes on. Nodes that join get workers, nodes that leave are not missed.
"""
