"""What a plain installation, without the extras, can do."""

import subprocess
import sys

import pytest

BLOCKED = ("lightning_fabric", "pyarrow", "tensorboard", "matplotlib", "constriction", "huggingface_hub")


@pytest.mark.parametrize("verb", ["--version", "--help", "encode", "tokenize", "evaluate", "generate", "weights"])
def test_every_verb_answers_without_the_extras(verb: str) -> None:
    arguments = [verb] if verb.startswith("--") else [verb, "--help"]
    program = f"import sys; sys.modules.update(dict.fromkeys({BLOCKED})); sys.argv = ['adaptok', *{arguments}]; "
    program += "from adaptok.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "adaptok" in done.stdout


def test_encoding_needs_no_extra(tmp_path) -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({BLOCKED})); import adaptok; codec = adaptok.load('tiny'); "
        "print(codec.encode(adaptok.sample_clip(codec).images[:16], adaptok.Budget(per_block=8)).kept.sum())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "32", done.stderr
