// Keys and values as they are computed: floats, four to a unit.

alias CacheUnit = vec4<Stored>;
