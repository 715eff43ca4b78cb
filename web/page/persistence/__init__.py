"""Values and files that the browser keeps for the page.

store          JSON values by key, from visit to visit or as long as the tab lasts
saved_inputs   inputs and output settings of each program, in the store
last_program   the program that is open, in the store of the tab, for a reload
library_files  program files that the library keeps, and the files that belong to them
codec          tokenizer files, found next to a program or chosen
"""
