"""PostgreSQL with pgvector from a wheel, run as our own direct child.

For the supervisor of `mos up`:

    files = prepare(data_dir, password_file)          # initdb on the first call; blocking, about 0.6 s
    child = await create_subprocess_exec(*command(files, port), stdout=log, stderr=log)
    await wait_ready(files.admin_dsn(port), timeout_s=30)
    child.send_signal(signal.SIGINT)                  # fast shutdown

For tests and scripts: `with EmbeddedPostgres(folder) as server: server.admin_dsn()`.
Start the child from the main thread: the kernel ends it when the *thread* that started it ends.
"""

from memoryos_postgres.embedded.files import ServerFiles, command, free_port, prepare, running_pids
from memoryos_postgres.embedded.server import EmbeddedPostgres, wait_ready

__all__ = ["EmbeddedPostgres", "ServerFiles", "command", "free_port", "prepare", "running_pids", "wait_ready"]
