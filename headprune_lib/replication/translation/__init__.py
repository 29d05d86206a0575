"""The translation half: verses, vocabulary, encoder-decoder models, their training and output."""
