"""``python -m anachron``: the program, where its folder is not on the path."""

from anachron.cli.entry import run

if __name__ == "__main__":
    run()
