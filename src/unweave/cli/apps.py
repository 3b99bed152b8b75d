"""The command `unweave` and those of its commands that have commands of their own."""

from tyro.extras import SubcommandApp

__all__ = ["app", "data_app", "study_app", "theory_app"]

app = SubcommandApp()
data_app = SubcommandApp()
app.command(data_app, name="data", help="The data sets: list, prepare, show, export.")
study_app = SubcommandApp()
app.command(study_app, name="study", help="Grids of runs: plan, run, status, table, check.")
theory_app = SubcommandApp()
app.command(
    theory_app,
    name="theory",
    help="Small exact experiments: vi-bias, d-separation, impossibility, pca-alignment.",
)
