-- Claim (index, language) for a job and write it, placed on a node (attempt 1) or waiting (attempt 0).
-- A session that vanished from Redis while its owner lives is written anew.
-- With old, the claims of that index and those before it are forgotten: the session's counter knows that they are used.
-- Returns 'fresh', 'anew' when the session had to be written too, {job} when the claim is taken, 'fenced' when the session has a newer owner, or 'mute'
-- when the job's audio is not there: without it nothing is written.
-- KEYS: session audio
-- ARGV: owner epoch spoken ttl_ms claim id job record next_index last_seq old affinity affinity_ttl_ms pool pair
-- include: now_ms remember
-- durable: promises 1 and 3
local known = redis.call('HMGET', session, 'owner', 'epoch', claim, 'next_index', 'last_seq', 'spoken',
  'timeout_node_id', 'preferred_pool', 'last_lang_pair')
local current, mine = tonumber(known[2]), tonumber(epoch)
if current and (current > mine or current == mine and known[1] ~= owner) then
  return 'fenced'
end
if current and current < mine then
  redis.call('HSET', session, 'owner', owner, 'epoch', epoch)
end
if known[3] then
  return {known[3]}
end
if redis.call('EXISTS', audio) == 0 then
  return 'mute'
end
local function higher(value, before)
  return (tonumber(value) or -1) > (tonumber(before) or -1) and value or before or ''
end
redis.call('HSET', session, claim, id, job, record, 'next_index', higher(next_index, known[4]),
  'last_seq', higher(last_seq, known[5]))
if spoken ~= '' and spoken ~= known[6] then
  redis.call('HSET', session, 'spoken', higher(spoken, known[6]))
end
if affinity ~= '' or known[7] then
  remember(session, affinity, affinity_ttl_ms)
end
if pool ~= '' and (pool ~= known[8] or pair ~= known[9]) then
  redis.call('HSET', session, 'preferred_pool', pool, 'last_lang_pair', pair)
end
if old ~= '' then
  for _, name in ipairs(redis.call('HKEYS', session)) do
    if (tonumber(string.match(name, '^claim:(%d+)')) or math.huge) <= tonumber(old) then
      redis.call('HDEL', session, name)
    end
  end
end
if not current then
  redis.call('HSET', session, 'owner', owner, 'epoch', epoch)
  redis.call('PEXPIRE', session, ttl_ms)
  return 'anew'
end
return 'fresh'
