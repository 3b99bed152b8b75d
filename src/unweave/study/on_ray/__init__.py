"""A study on Ray: fleets and scores are tasks, which Ray restarts when a process or node dies.

One process, the driver (`driver.py`), plans fleets, submits tasks and records their outcomes in
the ledger, which nobody else opens. Tasks (`tasks.py`) train and score runs in the study's
folder or at its URL; one that is restarted resumes from its fleet's last checkpoint.
"""
