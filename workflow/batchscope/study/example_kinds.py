"""Kinds of examples."""

IMAGES, ROWS, TOKENS, SEQUENCES = "images", "rows", "tokens", "sequences"
# Kind -> words. A class is predicted for each position of tokens, and for a sequence as a whole.
KINDS = {
    IMAGES: "images",
    ROWS: "rows of numbers",
    TOKENS: "sequences of tokens",
    SEQUENCES: "sequences of tokens with one class each",
}
OF_TOKENS = (TOKENS, SEQUENCES)
