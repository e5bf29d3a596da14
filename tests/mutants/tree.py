"""A copy of the tree, in which files are edited."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "target/mutants"
# Built with little optimization, because builds take longer than tests.
ENVIRONMENT = os.environ | {
    "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(WORK / "build")),
    "CARGO_INCREMENTAL": "1",
    "CARGO_PROFILE_DEV_DEBUG": "false",
    "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
}


class Tree:
    """A copy of the tree for one sample."""

    def __init__(self, name, sample):
        self.root = WORK / name / "tree"
        self.sample = sample
        self.programs = []
        # All builds use this state. An edit during the run would otherwise make mutants unviable.
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
        originals = {self.root / name: ROOT / name for name in names if (ROOT / name).is_file()}
        self.files = {path: (original.read_bytes(), original.stat().st_mode) for path, original in originals.items()}

    def restore(self):
        """Makes the copy equal to the tree. Equal files stay as they are, so that builds stay current."""
        for path in [path for path in self.root.rglob("*") if path.is_file() and path not in self.files]:
            path.unlink()
        for path, (content, mode) in self.files.items():
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(mode)

    def replace(self, mutant):
        """Applies a mutant to the copy, as cargo-mutants does."""
        path = self.root / mutant["file"]
        lines = path.read_text().splitlines(keepends=True)
        start, end = mutant["span"]["start"], mutant["span"]["end"]
        before = lines[: start["line"] - 1] + [lines[start["line"] - 1][: start["column"] - 1]]
        after = [lines[end["line"] - 1][end["column"] - 1 :]] + lines[end["line"] :]
        path.write_text("".join([*before, mutant["replacement"], " ", *after]))

    def switch(self, numbered):
        """Puts mutants of the copy behind switches. Returns the inserted texts of each file."""
        tool = ["cargo", "run", "--quiet", "--locked", "--package", "cloakwork-tests-mutants", "--"]
        library = f"{self.sample.folder}/src/lib.rs"
        mutants = [{"number": number, **mutant} for number, mutant in numbered.items()]
        command = [*tool, str(self.root), library]
        run = subprocess.run(
            command, cwd=ROOT, env=ENVIRONMENT, input=json.dumps(mutants).encode(), stdout=subprocess.PIPE, check=True
        )
        return json.loads(run.stdout)

    def build(self):
        """Builds the package's test programs and returns the compiler's errors."""
        package = ["--locked", "--package", self.sample.package]
        command = ["cargo", "test", *package, "--tests", "--no-run", "--message-format=json"]
        run = subprocess.run(command, cwd=self.root, env=ENVIRONMENT, capture_output=True, text=True)
        messages = [json.loads(line) for line in run.stdout.splitlines()]
        built = [it for it in messages if it["reason"] == "compiler-artifact" and it["profile"]["test"]]
        # The library's own tests come first.
        built.sort(key=lambda program: program["target"]["kind"] != ["lib"])
        self.programs = [program["executable"] for program in built]
        errors = [it["message"] for it in messages if it["reason"] == "compiler-message"]
        errors = [error for error in errors if error["level"] == "error"]
        if run.returncode and not errors:
            raise SystemExit(run.stderr)
        return errors if run.returncode else []
