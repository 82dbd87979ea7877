import asyncio, os, sys, signal, time, psutil
from pathlib import Path
from memoryos_testing.opa import opa_server
from .world import make_world, IDS
async def test_profile(tmp_path, database):
    async with opa_server(tmp_path) as opa:
        world = make_world(tmp_path, database, opa.port)
        env={**os.environ,"MEMORYOS_CONFIG":str(world.config_file),"MEMORYOS_POLICY__PROBE_INTERVAL_S":"30","MEMORYOS_POLICY__SOURCE_INTERVAL_S":"60"}
        prof=os.environ.get("PROF")
        argv=[sys.executable,*(["-m","cProfile","-o",prof] if prof else []),"-m","memoryos_policy.main"]
        p=await asyncio.create_subprocess_exec(*argv,env=env)
        while not world.port_file.exists(): await asyncio.sleep(.05)
        g=world.gateway()
        for _ in range(100): await g.decide("refund.create",{"amount":20})
        pr=psutil.Process(p.pid); po=psutil.Process(opa.process.pid)
        def cpu(x): t=x.cpu_times(); return t.user+t.system
        pgs=[q for q in psutil.process_iter(['name']) if q.info['name']=='postgres']
        def pgc():
            s=0
            for q in pgs:
                try: s+=cpu(q)
                except Exception: pass
            return s
        n=int(os.environ.get("N","1000"))
        for conc in (1,32):
            a,b,c=cpu(pr),cpu(po),pgc(); t0=time.time()
            it=iter(range(n))
            async def w():
                for _ in it: await g.decide("refund.create",{"amount":20})
            await asyncio.gather(*(w() for _ in range(conc)))
            print(f"\nconc {conc}: policy {(cpu(pr)-a)/n*1000:.2f} opa {(cpu(po)-b)/n*1000:.2f} pg(all) {(pgc()-c)/n*1000:.2f} ms; {n/(time.time()-t0):.0f}/s",flush=True)
        p.send_signal(signal.SIGTERM); await p.wait()
        for ch in world.channels: await ch.close()
