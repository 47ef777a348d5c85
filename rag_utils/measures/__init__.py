"""The five methods asked of a reader, one file per paper: questions and passages in, a table out."""
