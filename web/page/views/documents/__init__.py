"""The view of documents.

panel.py        acts, searches and answers
collection.py   the documents of one encoder, kept in the library
answering.py    a language model beside the encoder, and its answers
markup.py       markup of the panel
"""
