"""Client quotas: limits of usage per client, and the throttle time of clients above them.

They implement KIP-13, KIP-124, KIP-219 and KIP-599.

After each request, dispatch gets the throttle time, writes it into throttle_time_ms, and mutes the connection for as
long. Without quotas nothing is measured: the hot path then only reads `ClientQuotaManager.active`.

    limits.py:         the quota that counts for a client
    rate.py:           rates over sampled windows
    token_bucket.py:   bursts, for changes of the cluster
    measures.py:       usage of each client
    mutations.py:      the quota on changes during one request
    manager.py:        all of them together
"""
