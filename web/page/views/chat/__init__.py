"""The chat: `codec` is how text becomes tokens, `talk` a conversation with what is known of every
answer, `settings` what people choose for the next one, and `markup` what all that looks like.
`views/chat/panel.py` brings it to the page.
"""
