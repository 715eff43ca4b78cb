"""The profile: `chart` draws bars that can be walked along, `timeline` is one run in time with its
tables, `memory` what the method has on the GPU. `views/profile/panel.py` brings it to the page.
"""
