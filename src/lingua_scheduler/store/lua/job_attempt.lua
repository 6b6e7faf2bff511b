-- Make an attempt the current one, and its node the session's if speech goes on there.
-- 1 when it is (also when asked again), 0 when the job ended or moved on, or the session has a newer owner.
-- KEYS: session
-- ARGV: owner epoch job attempt node reservation affinity affinity_ttl_ms
-- include: now_ms remember holds
-- durable: promise 3
local mine, _, record = holds(session, owner, epoch, job)
local current, holder, claim, request =
  string.match(mine and record or '', '^%u+ (%d+) (%S*)\n([^\n]*\n)[^\n]*\n(.*)$')
if not current then
  return 0
end
if current == attempt and holder == node then
  return 1
end
if tonumber(current) ~= tonumber(attempt) - 1 then
  return 0
end
redis.call('HSET', session, job, 'DISPATCHED ' .. attempt .. ' ' .. node .. '\n' .. claim .. reservation .. '\n' .. request)
remember(session, affinity, affinity_ttl_ms)
return 1
