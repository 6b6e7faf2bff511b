-- Move a letter to the dead letters, of which the oldest go beyond `max`; 0 when it is not in the inbox any more.
-- KEYS: inbox dead
-- ARGV: group id max keep_s body source reason deliveries
-- include: now_ms
-- durable: promise 1
if #redis.call('XRANGE', inbox, id, id) == 0 then
  redis.call('XACK', inbox, group, id)
  return 0
end
redis.call('XADD', dead, 'MAXLEN', max, '*',
  'letter', id, 'body', body, 'source', source, 'reason', reason, 'deliveries', deliveries,
  'sent_ms', string.match(id, '^%d+'), 'buried_ms', now_ms())
redis.call('EXPIRE', dead, keep_s)
redis.call('XACK', inbox, group, id)
redis.call('XDEL', inbox, id)
return 1
