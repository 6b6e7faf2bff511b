-- Add numbers to a counter and say who asked; a script of the loader's tests.
-- KEYS: counter
-- ARGV: who amounts...
-- include: total
local sum = total(amounts)
redis.call('INCRBY', counter, sum)
redis.call('EXPIRE', counter, 60)
return {who, sum, #amounts}
