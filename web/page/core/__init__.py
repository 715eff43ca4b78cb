"""The open program, and the state that sections and views share.

session          the program with its inputs, results and calls; replaced as a whole
runner, history  one task at a time on the program; the calls since its state began
state            `AppState`: browser, adapter, session, status, and who follows which change
interfaces       the interfaces through which sections use each other
palette, undo    commands of the palette, and the step that can be undone
store            JSON values by key, from visit to visit or as long as the tab lasts
saved_inputs     inputs and output settings of each program, in the store
last_program     the program that is open, in the store of the tab, for a reload
"""
