-- Give everything back, in the order of the header; its ARGV line is continued.
-- KEYS: first second
-- ARGV: text number
-- ARGV: fraction raw
return {first, second, text, number, fraction, raw}
