"""Graph transformers as attention masks."""
