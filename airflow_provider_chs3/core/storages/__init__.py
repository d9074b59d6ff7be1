"""Each storage: how its objects are listed, by month or months together, and what reads them."""
