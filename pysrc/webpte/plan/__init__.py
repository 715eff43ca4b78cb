"""Planning: lowering a graph to dispatches, assigning memory, assembling shaders."""
