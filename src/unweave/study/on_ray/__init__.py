"""A study on Ray: fleets and scores are tasks, which Ray restarts when a process or node dies.

One process, the driver (`driver.py`), plans fleets, submits tasks and records their outcomes in
the ledger, which nobody else opens. Tasks (`tasks.py`) train, encode and score in the study's
folder or at its URL; a task that is restarted resumes from its fleet's last checkpoint.
"""
