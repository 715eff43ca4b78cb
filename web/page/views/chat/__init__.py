"""The chat view.

panel        messages of the page          talk      a conversation and its answers
settings     generation settings           markup    the conversation as markup
archive      earlier conversations, files  model_picker  the language models of the gallery
saved_chats  conversations in the store    controls  the form, settings and tokenizer as markup
cache_choice  the elements of the KV cache   conversations  the current one, and the list
chat_model   the tokenizer, and sight      sight     how a program that sees takes pictures
pictures     pictures of messages          picture_markup  these as markup
"""
