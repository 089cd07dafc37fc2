observers = []


def _cuda_attach_out_of_memory_observer(observer):
    observers.append(observer)
