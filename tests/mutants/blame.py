"""Finds the mutants that an error of the compiler comes from."""

# Codes of errors about a missing trait, such as one without which a type has no such operator.
LACKS_TRAIT = ("E0277", "E0368", "E0369", "E0600")


def mutants(error, inserted):
    """Numbers of the mutants that an error comes from, given the inserted texts of each file.

    An error in a mutated copy points into an inserted text. Other errors point at text that has
    inserted texts in it. If an error does neither, then each mutant of the file may be its cause.
    """
    primary = [span for span in error["spans"] if span["is_primary"]]
    return (
        numbers(primary, inserted, contains)
        or numbers(spans(error), inserted, overlaps)
        or numbers(spans(error), inserted, lambda span, text: True)
    )


def unviable(error, inserted, numbered):
    """Numbers of the mutants that cannot compile without their switch either.

    A type without the trait that a mutated text needs lacks it everywhere. Only an opaque return
    type depends on the other texts of its function.
    """
    if (error["code"] or {}).get("code") not in LACKS_TRAIT:
        return set()
    primary = [span for span in error["spans"] if span["is_primary"]]
    return {number for number in numbers(primary, inserted, contains) if not returns_opaque(numbered[number])}


def returns_opaque(mutant):
    return mutant["genre"] == "FnValue" and "impl " in mutant["function"]["return_type"]


def numbers(spans, inserted, matches):
    return {text["number"] for span in spans for text in inserted.get(span["file_name"], []) if matches(span, text)}


def contains(span, text):
    return text["start"] <= span["byte_start"] and span["byte_end"] <= text["end"]


def overlaps(span, text):
    return text["start"] < span["byte_end"] and span["byte_start"] < text["end"]


def spans(error):
    """Spans of an error and of its notes."""
    return error["spans"] + [span for note in error["children"] for span in spans(note)]
