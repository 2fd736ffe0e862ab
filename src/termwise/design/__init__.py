"""What the design matrix G can be: stored, sparse, kernel tiles, products of columns, rows of a file."""
