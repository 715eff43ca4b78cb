"""Files that the browser keeps for the page.

library_files  program files that the library keeps, and the files that belong to them
manifests      programs that are opened by a manifest
shared_inputs  inputs in the fragment of a link
codec          tokenizer files, found next to a program or chosen
"""
