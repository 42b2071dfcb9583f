/*
 * handlers.h - the handlers of the rows of the table of routes (src/daemon/routes.c). A handler reads the request,
 * calls an operation and answers through daemon_request_*.
 */
#pragma once

#include "daemon/route/request.h"

void handle_docker(struct daemon_request *r);
void handle_agent(struct daemon_request *r);
void handle_proxy(struct daemon_request *r);
void handle_get(struct daemon_request *r);
void handle_put(struct daemon_request *r);
void handle_delete(struct daemon_request *r);
void handle_list(struct daemon_request *r);
void handle_sleep(struct daemon_request *r);
void handle_wake(struct daemon_request *r);
void handle_stop(struct daemon_request *r);
void handle_usage(struct daemon_request *r);
void handle_network_get(struct daemon_request *r);
void handle_network_patch(struct daemon_request *r);
void handle_network_log(struct daemon_request *r);
void handle_hook(struct daemon_request *r);
void handle_approvals(struct daemon_request *r);
void handle_approval_answer(struct daemon_request *r);
void handle_approval_forget(struct daemon_request *r);
void handle_secrets(struct daemon_request *r);
void handle_secret_get(struct daemon_request *r);
void handle_secret_put(struct daemon_request *r);
void handle_secret_delete(struct daemon_request *r);
void handle_ports(struct daemon_request *r);
void handle_port_get(struct daemon_request *r);
void handle_port_expose(struct daemon_request *r);
void handle_port_unexpose(struct daemon_request *r);
void handle_port_validate(struct daemon_request *r);
void handle_port_requests(struct daemon_request *r);
void handle_tunnels(struct daemon_request *r);
void handle_tunnel_open(struct daemon_request *r);
void handle_tunnel_get(struct daemon_request *r);
void handle_tunnel_close(struct daemon_request *r);
void handle_snapshots(struct daemon_request *r);
void handle_snapshot_take(struct daemon_request *r);
void handle_snapshot_get(struct daemon_request *r);
void handle_snapshot_drop(struct daemon_request *r);
void handle_fork(struct daemon_request *r);
void handle_restore(struct daemon_request *r);
void handle_replace(struct daemon_request *r);
void handle_diff(struct daemon_request *r);
void handle_box_backups(struct daemon_request *r);
void handle_backup_make(struct daemon_request *r);
void handle_backups(struct daemon_request *r);
void handle_backup_get(struct daemon_request *r);
void handle_backup_delete(struct daemon_request *r);
void handle_mounts(struct daemon_request *r);
void handle_mount(struct daemon_request *r);
void handle_unmount(struct daemon_request *r);
void handle_volumes(struct daemon_request *r);
void handle_volume_get(struct daemon_request *r);
void handle_volume_put(struct daemon_request *r);
void handle_volume_delete(struct daemon_request *r);
void handle_images(struct daemon_request *r);
void handle_tokens(struct daemon_request *r);
void handle_token_make(struct daemon_request *r);
void handle_token_revoke(struct daemon_request *r);
void handle_tickets(struct daemon_request *r);
void handle_console_links(struct daemon_request *r);
void handle_console_session(struct daemon_request *r);
void handle_console_login(struct daemon_request *r);
void handle_console_logout(struct daemon_request *r);
void handle_console_sessions(struct daemon_request *r);
void handle_console_end_all(struct daemon_request *r);
void handle_console_end(struct daemon_request *r);
void handle_audit(struct daemon_request *r);
void handle_events(struct daemon_request *r);
void handle_health(struct daemon_request *r);
void handle_metrics(struct daemon_request *r);
void handle_doctor(struct daemon_request *r);
void handle_selftest(struct daemon_request *r);
void handle_openapi(struct daemon_request *r);
void handle_root(struct daemon_request *r);
void handle_asset(struct daemon_request *r);
void handle_mcp(struct daemon_request *r);
void handle_bridge(struct daemon_request *r);
void handle_bridge_health(struct daemon_request *r);
