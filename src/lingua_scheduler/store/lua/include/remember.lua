-- Record which node a session's speech belongs to and until when, or forget it.
local function remember(session, node, ttl_ms)
  if node == '' then
    redis.call('HDEL', session, 'timeout_node_id', 'timeout_node_until')
  else
    redis.call('HSET', session, 'timeout_node_id', node, 'timeout_node_until', now_ms() + ttl_ms)
  end
end
