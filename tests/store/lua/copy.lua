-- Copy one value to many keys.
-- KEYS: source targets...
-- ARGV: ttl_s
-- include: number total
local value = redis.call('GET', source)
for _, target in ipairs(targets) do
  redis.call('SET', target, value, 'EX', number(ttl_s))
end
return total({#targets})
