"""The parts that sections and views share: markup, inputs, outputs, cards, files."""
