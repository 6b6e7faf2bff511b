-- Give a session that is at an epoch to a new owner, at the next one. Whatever older owners write from then on is refused.
-- The one who took it last may do so again by the same epoch (same try) until it has spoken: perhaps it heard no answer.
-- A try may be numbered, as name#number; then a lower number is one that was given up and came late.
-- Returns {epoch, owner before, owner before the first of the same tries, fields as names and values}; nil when it is not at that epoch.
-- KEYS: session
-- ARGV: owner epoch try ttl_ms
-- durable: promises 1 and 3
local known = redis.call('HMGET', session, 'owner', 'epoch', 'spoken', 'taken_at', 'taken_by', 'taken_from')
local current = tonumber(known[2])
local name, number = string.match(try, '^(.+)#(%d+)$')
local last = name and tonumber(string.match(known[5] or '', '^' .. name:gsub('%p', '%%%0') .. '#(%d+)$'))
local same = try ~= '' and known[5] == try or last and tonumber(number) > last
local again = same and known[4] == epoch and (tonumber(known[3]) or 0) < (current or 0)
if not current or (current ~= tonumber(epoch) and not again) then
  return false
end
local fields = redis.call('HGETALL', session)
local taken, from = current + 1, again and known[6] or known[1] or ''
redis.call('HSET', session, 'owner', owner, 'epoch', taken, 'taken_at', epoch, 'taken_by', try, 'taken_from', from)
redis.call('PEXPIRE', session, ttl_ms)
return {taken, known[1] or '', from, fields}
