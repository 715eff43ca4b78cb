"""The teach view: `panel` handles messages, `lesson` holds examples and weights, `saved_lessons`
keeps them over a reload, `drawings` centres and varies drawings, `markup` shows all of it."""
