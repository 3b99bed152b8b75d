"""Running a study on Ray, which restarts training and scoring tasks when a process or node dies.

One process, the driver (`driver.py`), plans fleets, submits tasks and records their outcomes in
the ledger, which only the driver opens. Tasks (`tasks.py`) train and score runs in the study's
folder or at its URL; a restarted task resumes from its fleet's last checkpoint.
"""
