"""Finds the mutants that an error of the compiler comes from."""

# Errors about a trait, function or name that does not exist.
ABSENCES = ("E0277", "E0368", "E0369", "E0425", "E0433", "E0599", "E0600")
# An error about a match whose arms do not cover all values.
GAP = "E0004"


def mutants(error, inserted, numbered):
    """Numbers of the mutants that an error comes from, given the inserted texts of each file.

    An error in a mutated copy points into an inserted text. Other errors point at text that has
    inserted texts in it. If an error does neither, then each mutant of the file may be its cause.
    """
    suspects = numbers(spans(error), inserted, lambda span, text: True)
    # A switched arm no longer covers its values. The error points at the matched value.
    if code(error) == GAP:
        return {number for number in suspects if numbered[number]["genre"] == "MatchArm"}
    return numbers(primary(error), inserted, contains) or numbers(spans(error), inserted, overlaps) or suspects


def unviable(error, inserted):
    """Numbers of the mutants that cannot compile without their switch either.

    A trait, function or name that is absent with a switch is absent without it.
    """
    return numbers(primary(error), inserted, contains) if code(error) in ABSENCES else set()


def numbers(spans, inserted, matches):
    return {text["number"] for span in spans for text in inserted.get(span["file_name"], []) if matches(span, text)}


def contains(span, text):
    return text["start"] <= span["byte_start"] and span["byte_end"] <= text["end"]


def overlaps(span, text):
    return text["start"] < span["byte_end"] and span["byte_start"] < text["end"]


def code(error):
    return (error["code"] or {}).get("code")


def primary(error):
    return [span for span in error["spans"] if span["is_primary"]]


def spans(error):
    """Spans of an error and of its notes."""
    return error["spans"] + [span for note in error["children"] for span in spans(note)]
